"""The room where pictures and texts become features: frozen encoders, their weights, the feature cache."""
