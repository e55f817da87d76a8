import { readdirSync, readFileSync } from 'node:fs'

/** The processes that a process has started (Linux). */
export function childrenOf(pid) {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const lists = tasks.map((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8'))
  return lists.flatMap((list) => list.trim().split(/\s+/).filter(Boolean).map(Number))
}

/** Resident memory of a process in MB (Linux). */
export function residentMb(pid) {
  const [, pages] = readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')
  return (Number(pages) * 4096) / 1e6
}
