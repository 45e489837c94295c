"""The demo, `./mt demo`: learn online which function a paragraph of documentation describes."""
