"""A rule-driven investigator for a machine without a key; always says that no language model was used."""
