"""What keeps a job from coming together: where ranks meet, how many they are, what starts them."""
