"""The book of rules: what each item needs, what obtains it, and how it is called."""
