"""The room where models are trained: recipes, one loop for all stages, and the stages themselves."""
