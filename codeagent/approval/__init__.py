"""The gate before every command: what it is (by grammar), what the rules say, what a person says."""
