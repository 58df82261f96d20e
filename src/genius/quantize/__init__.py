"""The room where vectors become codes, and codes are packed to the bit."""
