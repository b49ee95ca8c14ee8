"""What everything stands on: errors and checks, files, progress, signals."""
