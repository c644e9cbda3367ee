"""A broker's life: leading, following, housekeeping, dying and coming back."""
