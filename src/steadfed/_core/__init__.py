"""What everything else rests on: value objects, names, checks of numbers, random streams, durable files, wording."""
