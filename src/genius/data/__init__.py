"""The room where data comes in: records, readers for what people really have, pictures, the demo corpus."""
