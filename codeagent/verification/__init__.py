"""What independent runs say about a change: never the model's words, never the conversation's containers."""
