"""Runs qtape and other programs."""
import subprocess


def run(*command, seconds=300):
    """Exit code, the first line of the error or else of the output, and the output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return done.returncode, lines[0] if lines else "", done.stdout
