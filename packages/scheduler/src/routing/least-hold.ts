/** Milliseconds for which a router holds a request at least before it is asked again. */
export const leastHoldMs = 5
