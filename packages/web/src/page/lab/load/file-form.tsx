import type { JSX } from 'preact'
import { Field } from '../../parts/form.js'
import { type LoadFile, toLoadFile } from '../lab-job.js'

/** Which file, and how much of it. */
export interface FileDraft {
  readonly file?: LoadFile
  /** The most requests of a trace. */
  readonly requests: number
}

/** Reads the first of some files, if there is one. */
export async function readFirst(files: FileList | null | undefined): Promise<LoadFile | undefined> {
  const file = files?.[0]
  return file === undefined ? undefined : toLoadFile(file.name, await file.text())
}

/** Chooses a file with a load. */
export function FileForm({
  draft: { file, requests },
  onFile,
  onRequests,
}: {
  readonly draft: FileDraft
  readonly onFile: (file: LoadFile) => void
  readonly onRequests: (requests: number) => void
}): JSX.Element {
  return (
    <>
      <label class="wide">
        File: a recording (JSON), or a trace of Azure's (CSV) or Mooncake's (JSON lines) form
        <input
          type="file"
          accept=".json,.jsonl,.csv,.txt"
          onChange={({ currentTarget: { files } }) =>
            void readFirst(files).then((file) => file && onFile(file))
          }
        />
      </label>
      <p class="hint wide">
        {file === undefined
          ? 'A file can be dropped here, too. It stays in this browser.'
          : `${file.name}: a ${file.isRecording ? 'recording' : 'trace'}`}
      </p>
      {file?.isRecording !== true && (
        <Field
          label="Most requests"
          type="number"
          min="1"
          value={requests}
          onText={(text) => onRequests(Number(text))}
        />
      )}
    </>
  )
}
