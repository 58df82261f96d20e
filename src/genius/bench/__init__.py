"""The room where our times and sizes are measured beside other people's, in one run and as ratios."""
