"""Writes the message classes of ``ruslo.protocol`` from its schema tables; begin with generate.py."""
