import { closeSync, openSync, readSync } from 'node:fs'

const blockBytes = 1 << 18

/** The lines of a file, read in blocks: as one text it could be longer than texts may be. */
export function* fileLines(file: string): Generator<string> {
  const descriptor = openSync(file, 'r')
  try {
    const block = Buffer.alloc(blockBytes)
    let rest: Buffer = Buffer.alloc(0)
    for (let size: number; (size = readSync(descriptor, block)) > 0;) {
      const all = Buffer.concat([rest, block.subarray(0, size)])
      const end = all.lastIndexOf('\n') + 1
      yield* all.toString('utf8', 0, end).split('\n')
      rest = all.subarray(end)
    }
    yield rest.toString('utf8')
  } finally {
    closeSync(descriptor)
  }
}
