"""Schedules of recomputing and paging under a RAM budget."""
