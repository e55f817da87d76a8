import { readFileSync } from 'node:fs'
import { childrenOf } from './processes.mjs'
import { sum } from './statistics.mjs'

const kib = 1024

/** The mappings of a process (Linux): bytes of its own, and bytes of the file beneath. */
function mappings(pid) {
  const parts = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[\da-f]+-[\da-f]+ )/m)
  return parts.map((part) => {
    const [, name = ''] = /^\S+ \S+ \S+ \S+ \S+[ \t]*(.*)$/m.exec(part)
    const bytes = (field) =>
      kib * Number(new RegExp(`^${field}: +(\\d+)`, 'm').exec(part)?.[1] ?? 0)
    const own = bytes('Anonymous')
    return { name, own, file: bytes('Rss') - own }
  })
}

/** User and system time of a process in seconds. */
export function cpuSeconds(pid) {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}

/** Bytes that llama.cpp allocated for weights that it does not read from the mapped file, and for KV. */
export function allocatedBytes(log) {
  const sizes = (what) =>
    [...log.matchAll(new RegExp(`(\\S+) +${what} buffer size = +([\\d.]+) MiB`, 'g'))]
      .filter(([, device]) => !device.endsWith('_Mapped'))
      .reduce((total, [, , mib]) => total + Number(mib) * kib * kib, 0)
  return { weights: sizes('model'), kv: sizes('KV') }
}

/**
 * What a server and its engine take beyond weights and KV, in bytes. Pages of programs and libraries, which
 * both have, count once, and nobody else's use of them makes them less: the sum of `Pss` would.
 */
export function memoryBeyond(pid, allocated) {
  const [child] = childrenOf(pid)
  const [server, engine] = [pid, child].map((each) =>
    mappings(each).filter(({ name }) => !name.endsWith('.gguf')),
  )
  const own = (maps) => sum(maps.map((map) => map.own))
  const files = new Map()
  for (const maps of [server, engine]) {
    const each = new Map()
    for (const { name, file } of maps) {
      if (name.startsWith('/')) each.set(name, (each.get(name) ?? 0) + file)
    }
    for (const [name, bytes] of each) files.set(name, Math.max(files.get(name) ?? 0, bytes))
  }
  const shared = sum([...files.values()])
  const ofServer = own(server)
  const ofEngine = own(engine) - allocated.weights - allocated.kv
  return { server: ofServer, engine: ofEngine, files: shared, total: ofServer + ofEngine + shared }
}
