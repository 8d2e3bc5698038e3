"""Harvests what attention layers of a Hugging Face model receive and return, as activation sets."""
