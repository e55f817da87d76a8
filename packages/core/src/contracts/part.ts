import type { InjectionToken } from 'tsyringe'

/** Names a replaceable part of an engine or server, such as `ADMISSION`. */
export type PartToken<T> = InjectionToken<T>

/** What a part is made with. */
export interface PartContext<T> {
  /** Another part of the same engine, such as `get(CLOCK)`. */
  readonly get: <U>(token: PartToken<U>) => U
  /** Makes the part that this one replaces, to add to it: `original().check(…)`. */
  readonly original: () => T
}

/** Makes a part; called once for each engine. */
export type PartFactory<T> = (context: PartContext<T>) => T
