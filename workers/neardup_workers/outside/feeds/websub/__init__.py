"""WebSub (a recommendation of the W3C): hubs push what is new in a feed, which is asked rarely then."""
