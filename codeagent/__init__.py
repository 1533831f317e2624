"""codeagent: investigates a repository inside a locked-down container and says what is proven."""

__version__ = "0.1.0"
