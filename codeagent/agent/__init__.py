"""The turn: inferences, tool calls and their outputs, and why it stops."""
