"""Texts, tokens and vectors become numbers."""
