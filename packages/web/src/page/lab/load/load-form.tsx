import type { JSX } from 'preact'
import { type FileDraft, FileForm, readFirst } from './file-form.js'
import type { LabJob, LoadFile } from '../lab-job.js'
import type { MadeLoad } from './made-load.js'

/** Where a load comes from. */
export type Source = LabJob['load']['kind']

const fields: readonly (readonly [name: keyof MadeLoad, label: string])[] = [
  ['requests', 'Requests'],
  ['rate', 'Requests per second'],
  ['promptTokens', 'Tokens of a prompt'],
  ['answerTokens', 'Tokens of an answer'],
  ['sharedTokens', 'Shared prefix'],
  ['tenants', 'Tenants'],
  ['seed', 'Seed'],
]

/** The machines of the simulation, and what they stand for. */
const machines = [
  ['gpu-8b', '8B on a large GPU'],
  ['two-cores', '0.6B on two CPU cores'],
] as const

/** What to run: the last minutes of the server, a file or a made load, and on which machine. */
export function LoadForm(props: {
  readonly source: Source
  readonly made: MadeLoad
  readonly file: FileDraft
  readonly machine: string
  readonly slots: number
  readonly setSource: (source: Source) => void
  readonly setMade: (made: MadeLoad) => void
  readonly setRequests: (requests: number) => void
  /** Takes a file, which is the source then. */
  readonly onFile: (file: LoadFile) => void
  readonly setMachine: (machine: string) => void
  readonly setSlots: (slots: number) => void
}): JSX.Element {
  const { source, made, file, machine, slots, onFile } = props
  const { setSource, setMade, setRequests, setMachine, setSlots } = props
  const isRecorded =
    source === 'recording' || (source === 'file' && file.file?.isRecording === true)
  return (
    <section
      class="card"
      aria-label="Load"
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault()
        void readFirst(event.dataTransfer?.files).then((file) => file && onFile(file))
      }}
    >
      <h2>Load</h2>
      <div class="fields">
        <label>
          Requests of
          <select
            value={source}
            onChange={(event) => setSource(event.currentTarget.value as Source)}
          >
            <option value="made">a made load</option>
            <option value="recording">this server's last minutes</option>
            <option value="file">a file</option>
          </select>
        </label>
        <label>
          Machine
          <select value={machine} onChange={(event) => setMachine(event.currentTarget.value)}>
            {isRecorded && <option value="recorded">the recorded one</option>}
            {machines.map(([name, about]) => (
              <option key={name} value={name}>
                {about}
              </option>
            ))}
          </select>
        </label>
        <label>
          Slots
          <input
            type="number"
            min="1"
            max="256"
            value={slots}
            onInput={(event) => setSlots(Number(event.currentTarget.value))}
          />
        </label>
        {source === 'file' && <FileForm draft={file} onFile={onFile} onRequests={setRequests} />}
        {source === 'made' &&
          fields.map(([name, label]) => (
            <label key={name}>
              {label}
              <input
                type="number"
                min={name === 'sharedTokens' ? 0 : name === 'rate' ? 0.01 : 1}
                step={name === 'rate' ? 'any' : 1}
                value={made[name]}
                onInput={(event) => setMade({ ...made, [name]: Number(event.currentTarget.value) })}
              />
            </label>
          ))}
      </div>
    </section>
  )
}
