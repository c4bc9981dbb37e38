"""What one line is made of: who says it, when, and what tools and people wrapped around it."""
