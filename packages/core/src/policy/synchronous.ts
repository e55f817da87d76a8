/**
 * What a method of a plug-in returned, which is not to be a promise. The rejection of a promise that
 * nobody waits for would end the process.
 *
 * @throws TypeError that names the method
 */
export function synchronous<T>(result: T, method: string): T {
  if (!(result instanceof Promise)) return result
  result.catch(() => {})
  throw new TypeError(`${method} returned a promise: it is synchronous`)
}
