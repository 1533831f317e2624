"""The only part of the program that writes the user's repository: on `codeagent apply`, after showing what."""
