import { crc32 } from 'node:zlib'
import type { StateHead } from '@cllm/core'

/** The beginning of a file: our name and the version of the format. */
export const magic = Buffer.from('CLLMST01')
/** The beginning of an encrypted file. */
export const sealedMagic = Buffer.from('CLLMSE01')
/** The common beginning of both, without the version. */
const family = 'CLLMS'
/** Bytes of a number. */
export const numberBytes = 4
/** Most bytes of the fields: a file with more is not ours. */
const longestFields = 65_536

export const cutShort = 'it is cut short'

/** A file's head, and how long the state is. */
export interface ReadHead extends StateHead {
  readonly bytes: number
  /** The state, where it was read. */
  readonly data?: Uint8Array
  /** The time of the file, in milliseconds since the epoch. */
  readonly usedAt?: number
  /** The version of the file, which changes with each write. */
  readonly version?: string
}

/** The fields of a head, with the number of tokens in place of the tokens. */
type Fields = Omit<StateHead, 'tokens'> & { readonly tokens: number; readonly bytes: number }

/** A state's head: the magic, the length of the fields, the fields as JSON, and the tokens. */
export function writeHead({ key, scope, partial, tokens }: StateHead, bytes: number): Buffer {
  const fields: Fields = { key, scope, partial, tokens: tokens.length, bytes }
  const text = Buffer.from(JSON.stringify(fields))
  const length = Buffer.alloc(numberBytes)
  length.writeUInt32LE(text.byteLength)
  const ids = Buffer.alloc(numberBytes * tokens.length)
  for (const [index, token] of tokens.entries()) ids.writeInt32LE(token, numberBytes * index)
  return Buffer.concat([magic, length, text, ids])
}

/**
 * Reads what {@link writeHead} wrote, behind its magic.
 * @throws Error that says why it is no head
 */
export function readHead(source: StateSource): ReadHead {
  const length = source.take(numberBytes).readUInt32LE()
  if (length > longestFields) throw new Error('its head is too long')
  const { tokens: count, ...fields } = fieldsOf(source.take(length).toString())
  if (numberBytes * count > source.left) throw new Error(cutShort)
  const ids = source.take(numberBytes * count)
  const tokens = Array.from({ length: count }, (_, index) => ids.readInt32LE(numberBytes * index))
  return { ...fields, tokens }
}

/** Says why a file begins otherwise than expected. */
export function strangeness(opening: Buffer): string {
  if (opening.equals(sealedMagic)) return 'it is encrypted, and no key was given'
  if (opening.equals(magic)) return 'it is not encrypted, and a key was given'
  const isOurs = opening.toString('latin1').startsWith(family)
  return isOurs ? 'it is of another version of cllm' : 'it is no state'
}

function fieldsOf(text: string): Fields {
  try {
    const { key, scope, partial, tokens, bytes } = JSON.parse(text) as Partial<Fields>
    const isRight =
      typeof key === 'string' &&
      typeof scope === 'string' &&
      typeof partial === 'boolean' &&
      isCount(tokens) &&
      isCount(bytes)
    if (isRight) return { key, scope, partial, tokens, bytes }
  } catch {
    // It is not JSON, or null.
  }
  throw new Error('its head is damaged')
}

const isCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0

/** The bytes of a state, read from the beginning to the end. */
export class StateSource {
  #at = 0
  /** The CRC-32 of what was read. */
  sum = 0

  /** @param fill - fills `bytes` from the position `at` of the source */
  constructor(
    private readonly size: number,
    private readonly fill: (bytes: Uint8Array, at: number) => void,
  ) {}

  /** Bytes that are left, at most. */
  get left(): number {
    return this.size - this.#at
  }

  /** @throws Error if fewer are left */
  take(count: number): Buffer {
    const bytes = Buffer.alloc(count)
    this.into(bytes)
    return bytes
  }

  /** Fills these bytes with the next ones. */
  into(bytes: Uint8Array): void {
    if (bytes.byteLength > this.left) throw new Error(cutShort)
    this.fill(bytes, this.#at)
    this.#at += bytes.byteLength
    this.sum = crc32(bytes, this.sum)
  }
}

/** A source of bytes in memory. */
export const sourceOf = (all: Buffer): StateSource =>
  new StateSource(all.byteLength, (bytes, at) => void all.copy(bytes, 0, at))
