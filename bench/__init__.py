"""What performance is claimed by. `make bench` prints the table; ratios count, not absolute times."""
