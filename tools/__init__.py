"""For developers: nothing here comes with the package."""
