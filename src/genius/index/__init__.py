"""The room where items are kept to be found: a catalogue in SQLite, segments of codes, and their search."""
