import { join } from 'node:path'
import type { StateFile } from '@cllm/core'
import { cleanFolder } from './clean-folder.js'
import { readState } from './state-bytes.js'
import type { Listed, ListProblem, ListTask } from './state-task.js'

/** Reads the heads of what {@link cleanFolder} leaves. */
export function listFolder({ key, secret, ...task }: ListTask): Listed {
  const files: StateFile[] = []
  const problems = new Map<string, ListProblem>()
  for (const name of cleanFolder(task).names) {
    try {
      const head = readState(join(task.folder, name), secret)
      if (head.key === key) files.push({ ...head, name })
    } catch (error) {
      const { message: reason, code } = error as NodeJS.ErrnoException
      // Another process has removed it.
      if (code === 'ENOENT') continue
      problems.set(reason, { name, reason, count: (problems.get(reason)?.count ?? 0) + 1 })
    }
  }
  return { files, problems: [...problems.values()] }
}
