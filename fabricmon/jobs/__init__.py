"""Jobs of schedulers: what runs where, and what an incident does to it. Pure; the centre asks the schedulers."""
