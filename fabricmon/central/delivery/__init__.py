"""Delivery: outbox and its lanes, silences, acknowledgements, senders that act."""
