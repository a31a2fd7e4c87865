"""Boards, tables, plots and reports."""
