"""The command line: argv → Config → wiring → exit code. One module a command."""
