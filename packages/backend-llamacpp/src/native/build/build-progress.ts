/** What a build is doing. */
export type BuildProgress =
  | { readonly kind: 'stage'; readonly text: string }
  /** How much of the stage is done, from 0 to 1. */
  | { readonly kind: 'share'; readonly done: number }

/** How much is built, from 0 to 1, by a line of make's (`[ 43%] …`) or Ninja's (`[12/96] …`). */
export function shareOf(line: string): number | undefined {
  const percent = /^\[\s*(\d+)%\]/.exec(line)?.[1]
  if (percent !== undefined) return Number(percent) / 100
  const [, done, all] = /^\[(\d+)\/(\d+)\]/.exec(line) ?? []
  return done === undefined || Number(all) === 0 ? undefined : Number(done) / Number(all)
}
