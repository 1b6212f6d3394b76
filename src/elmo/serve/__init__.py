"""Models behind HTTP, with a page. `elmo serve` starts it; create_app in app.py gives the application itself."""
