"""The wall, seen from outside: engine, image, containers, the channel to the guest, the private copy."""
