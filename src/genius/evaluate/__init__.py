"""The room of the ruler: M-BEIR's protocol, its metrics, and reports that can be made again."""
