import { ErrorReply } from '@redis/client'

/** What a server's refusals begin with that end some day, without anybody changing its settings. */
const temporary = ['OOM', 'READONLY', 'LOADING', 'BUSY', 'MASTERDOWN', 'MISCONF', 'CLUSTERDOWN']

/** What to do about a refusal, by what it says. */
const hints: readonly (readonly [about: RegExp, hint: string])[] = [
  [/^OOM/, 'it has no memory left: raise its maxmemory'],
  [/^READONLY/, 'it is a replica: the URL must name the primary'],
  [/^MISCONF/, 'it cannot write to its disk'],
  [/^NOPERM/, 'its user lacks a right that docs/cluster.md lists'],
  [/^(WRONGPASS|NOAUTH|ERR AUTH)/, 'the URL has the wrong user or password, or none'],
  [/unknown command|syntax error/i, 'Redis 6.2 or later, or Valkey, is needed'],
]

/** Whether the server is there, refuses a command, and may take it later. */
export function isTemporary(error: unknown): boolean {
  return error instanceof ErrorReply && temporary.some((word) => error.message.startsWith(word))
}

/**
 * Whether it is the answer of a server that is no primary any more. It stays connected: nobody but this process
 * notices that the name stands for another server now.
 */
export function isOfOldPrimary(error: unknown): boolean {
  // Within a script it is a part of the message.
  return error instanceof Error && /(^|-)(READONLY|MASTERDOWN|UNBLOCKED)\b/.test(error.message)
}

/** What a server's refusal means; undefined for another kind of failure. */
export function refusalOf(error: unknown): string | undefined {
  // A read that waits ends so when the server becomes a primary or a replica.
  if (!(error instanceof ErrorReply) || error.message.startsWith('UNBLOCKED')) return undefined
  const [, hint] = hints.find(([about]) => about.test(error.message)) ?? []
  return hint === undefined ? error.message : `${error.message} (${hint})`
}
