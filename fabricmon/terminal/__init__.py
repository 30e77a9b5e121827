"""What the commands for people print: lines of text made of the centre's answers, and the terminal they go to."""
