"""The InfiniBand fabric as management datagrams tell it: what is there, how it is cabled, what every port counted."""
