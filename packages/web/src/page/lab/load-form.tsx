import { dropTarget, NumberField, Select } from '../parts/form.js'
import { type LabJob, type LoadFile, type MadeLoad, toLoadFile, usualLoad } from './lab-job.js'

/** The load and the machine of a job, as far as the user has chosen them. */
export interface LoadDraft extends Pick<LabJob, 'machine' | 'slots'> {
  readonly source: LabJob['load']['kind']
  readonly made: MadeLoad
  readonly file?: LoadFile
  /** The most requests of a trace. */
  readonly requests: number
}

/** A made load for a first try. */
export const usualDraft: LoadDraft = {
  source: 'made',
  made: usualLoad,
  requests: 1000,
  machine: 'gpu-8b',
  slots: 8,
}

const fields: readonly (readonly [name: keyof MadeLoad, label: string])[] = [
  ['requests', 'Requests'],
  ['rate', 'Requests per second'],
  ['promptTokens', 'Prompt tokens'],
  ['answerTokens', 'Answer tokens'],
  ['sharedTokens', 'Shared prefix tokens'],
  ['tenants', 'Tenants'],
  ['seed', 'Seed'],
]

const sources: readonly (readonly [source: LoadDraft['source'], text: string])[] = [
  ['made', 'synthetic load'],
  ['recording', "this server's last minutes"],
  ['file', 'a file'],
]

const recorded = ['recorded', 'as recorded'] as const
/** The simulated machines, and the hardware that they represent. */
const machines: readonly (readonly [name: string, about: string])[] = [
  ['gpu-8b', '8B on a large GPU'],
  ['h200-8b', '8B on an H200'],
  ['two-cores', '0.6B on two CPU cores'],
]

const isRecorded = ({ source, file }: Pick<LoadDraft, 'source' | 'file'>): boolean =>
  source === 'recording' || (source === 'file' && file?.isRecording === true)

interface LoadFormProps {
  readonly draft: LoadDraft
  readonly onChange: (draft: LoadDraft) => void
}

/** Chooses the load (the server's last minutes, a file or a made one) and the machine. */
export function LoadForm({ draft, onChange }: LoadFormProps) {
  const { source, made, file, requests, machine, slots } = draft
  /** Takes another load, with its machine and slots. */
  const choose = (next: Partial<LoadDraft>): void => {
    const chosen = { ...draft, ...next }
    onChange({
      ...chosen,
      machine: isRecorded(chosen) ? 'recorded' : 'gpu-8b',
      slots: (chosen.source === 'file' ? chosen.file?.slots : undefined) ?? slots,
    })
  }
  /** Reads the first file, if there is one, as the load. */
  const take = async ([first]: Iterable<File>): Promise<void> => {
    if (first === undefined) return
    choose({ source: 'file', file: toLoadFile(first.name, await first.text()) })
  }
  return (
    <section class="card" aria-label="Load" {...dropTarget((files) => void take(files))}>
      <h2>Load</h2>
      <div class="fields">
        <Select
          label="Source"
          value={source}
          options={sources}
          onChoose={(next) => choose({ source: next })}
        />
        <Select
          label="Machine"
          value={machine}
          options={isRecorded(draft) ? [recorded, ...machines] : machines}
          onChoose={(next) => onChange({ ...draft, machine: next })}
        />
        <NumberField
          label="Slots"
          min="1"
          max="256"
          value={slots}
          onNumber={(next) => onChange({ ...draft, slots: next })}
        />
        {source === 'file' && (
          <>
            <label class="wide">
              File: a recording (JSON), or a trace of Azure's (CSV) or Mooncake's (JSON lines) form
              <input
                type="file"
                accept=".json,.jsonl,.csv,.txt"
                onChange={({ currentTarget: { files } }) => void take(files ?? [])}
              />
            </label>
            <p class="hint wide">
              {file === undefined
                ? 'A file can be dropped here, too. It stays in this browser.'
                : `${file.name}: a ${file.isRecording ? 'recording' : 'trace'}`}
            </p>
            {file?.isRecording !== true && (
              <NumberField
                label="Most requests"
                min="1"
                value={requests}
                onNumber={(next) => onChange({ ...draft, requests: next })}
              />
            )}
          </>
        )}
        {source === 'made' &&
          fields.map(([name, label]) => (
            <NumberField
              key={name}
              label={label}
              min={name === 'sharedTokens' ? 0 : name === 'rate' ? 0.01 : 1}
              step={name === 'rate' ? 'any' : 1}
              value={made[name]}
              onNumber={(next) => onChange({ ...draft, made: { ...made, [name]: next } })}
            />
          ))}
      </div>
    </section>
  )
}
