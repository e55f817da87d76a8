import type { InfillTokens, TokenId } from '@cllm/core'

/** The special tokens of the fake model, by their text; their ids are 0 to 3. */
export const fakeSpecialTokens = ['<s>', '</s>', '<|im_start|>', '<|im_end|>'] as const

/** Ids of the fake model's special tokens. */
export const fakeTokenIds = Object.freeze({
  beginOfSequence: 0,
  endOfSequence: 1,
  messageStart: 2,
  messageEnd: 3,
})

/** The id of byte 0; the tokens of the other bytes follow. */
export const firstByteToken: TokenId = fakeSpecialTokens.length

/** What marks gaps in a fake model that can fill them. */
export const fakeInfillTokens: InfillTokens = Object.freeze({
  prefix: firstByteToken + 1,
  suffix: firstByteToken + 2,
  middle: firstByteToken + 3,
})

/** The id of the first token that is neither special nor a single byte. */
export const firstWordToken: TokenId = firstByteToken + 256

const words =
  ' the, a, and, of, to, was, cat, dog, sun, sea, ran, sat, saw, big, red, old, day, night, house,' +
  ' tree, little, happy, story, time, once, upon, friend, play,Once,The,ing,ed'

/** Characters cut in two: a token that ends inside a character, and what completes it. */
const cutCharacters = [
  { head: [0xe2, 0x82], tail: [0xac] }, // €
  { head: [0x20, 0xc3], tail: [0xa9] }, // é after a space
  { head: [0xf0, 0x9f], tail: [0x98, 0x80] }, // 😀
]

const utf8 = new TextEncoder()

/** The bytes of each token; a special token has none. 300 tokens in all. */
export const fakePieces: readonly Uint8Array[] = [
  ...fakeSpecialTokens.map(() => new Uint8Array()),
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...words.split(',').map((word) => utf8.encode(word)),
  ...cutCharacters.map(({ head }) => Uint8Array.from(head)),
  ...[' für', '你', 'ß '].map((text) => utf8.encode(text)),
  Uint8Array.of(0x98, 0x80),
  Uint8Array.of(0xac, 0x20),
]

/** The id of the first token that only continues a character. */
export const firstTailToken: TokenId = fakePieces.length - 2

const idOf = (bytes: readonly number[]): TokenId =>
  fakePieces.findIndex(
    (piece) => piece.length > 0 && Buffer.from(piece).equals(Uint8Array.from(bytes)),
  )

/** For each token that ends inside a character the token that completes it. */
export const completions: ReadonlyMap<TokenId, TokenId> = new Map(
  cutCharacters.map(({ head, tail }) => [idOf(head), idOf(tail)]),
)
