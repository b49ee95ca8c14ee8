"""Feedback graphs: which action reveals which label, and what each action costs."""
