"""The values of the standard library that cross by value: dates and times, containers beside list and dict."""
