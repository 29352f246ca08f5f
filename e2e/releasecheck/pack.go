package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// packedModule is a module as it lies in the file-system proxy.
type packedModule struct {
	module.Version
	files int
	// size of the zip file in bytes.
	size int64
}

// packAll packs the modules in folders, which are relative to root, into a
// GOPROXY tree at proxy.
func packAll(ctx context.Context, root string, folders []string, version, proxy string) ([]packedModule, error) {
	var packed []packedModule
	for _, folder := range folders {
		m, err := pack(ctx, root, folder, version, proxy)
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", folder, err)
		}
		packed = append(packed, m)
	}
	return packed, nil
}

// pack writes one module into the proxy: the files that git tracks in its
// folder, with go.mod as it will be on the release commit, and with the licence
// of the repository when the folder has none, as the go command adds it too.
func pack(ctx context.Context, root, folder, version, proxy string) (packedModule, error) {
	goMod, modPath, err := releasedGoMod(filepath.Join(root, filepath.FromSlash(folder), "go.mod"))
	if err != nil {
		return packedModule{}, err
	}
	m := packedModule{Version: module.Version{Path: modPath, Version: version}}

	names, err := tracked(ctx, root, folder)
	if err != nil {
		return m, err
	}
	var files []zip.File
	licensed := false
	for _, name := range names {
		if name == "go.mod" {
			continue
		}
		licensed = licensed || name == "LICENSE"
		files = append(files, diskFile{name: name, disk: filepath.Join(root, filepath.FromSlash(folder), filepath.FromSlash(name))})
	}
	files = append(files, memoryFile{name: "go.mod", content: goMod})
	if !licensed {
		files = append(files, diskFile{name: "LICENSE", disk: filepath.Join(root, "LICENSE")})
	}
	m.files = len(files)

	var archive bytes.Buffer
	if err := zip.Create(&archive, m.Version, files); err != nil {
		return m, err
	}
	m.size = int64(archive.Len())
	return m, m.publish(proxy, goMod, archive.Bytes())
}

// publish writes the four files that the module proxy protocol asks for.
func (m packedModule) publish(proxy string, goMod, archive []byte) error {
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version.Version, time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	dir := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list":                      []byte(m.Version.Version + "\n"),
		m.Version.Version + ".info": info,
		m.Version.Version + ".mod":  goMod,
		m.Version.Version + ".zip":  archive,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// releasedGoMod returns the go.mod at name without its replace lines, and the
// module's path.
func releasedGoMod(name string) (content []byte, modPath string, err error) {
	content, err = os.ReadFile(name)
	if err != nil {
		return nil, "", err
	}
	file, err := modfile.Parse(name, content, nil)
	if err != nil {
		return nil, "", err
	}
	if file.Module == nil {
		return nil, "", fmt.Errorf("%s has no module line", name)
	}
	// DropReplace only marks lines, so the slice may be walked meanwhile.
	for _, r := range file.Replace {
		if err := file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return nil, "", err
		}
	}
	file.Cleanup()
	content, err = file.Format()
	return content, file.Module.Mod.Path, err
}

// tracked lists what git tracks below folder and what is still there, relative
// to folder. Nested modules are listed too: packing leaves them out.
func tracked(ctx context.Context, root, folder string) ([]string, error) {
	list := exec.CommandContext(ctx, "git", "ls-files", "-z", "--", ".")
	list.Dir = filepath.Join(root, filepath.FromSlash(folder))
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the tracked files with git: %w", err)
	}
	var names []string
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		_, err := os.Lstat(filepath.Join(list.Dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// diskFile is a file of the module that is packed as it is.
type diskFile struct{ name, disk string }

func (f diskFile) Path() string                 { return f.name }
func (f diskFile) Lstat() (fs.FileInfo, error)  { return os.Lstat(f.disk) }
func (f diskFile) Open() (io.ReadCloser, error) { return os.Open(f.disk) }

// memoryFile is a file of the module that is packed with a content of our own.
type memoryFile struct {
	name    string
	content []byte
}

func (f memoryFile) Path() string                { return f.name }
func (f memoryFile) Lstat() (fs.FileInfo, error) { return memoryInfo{f}, nil }
func (f memoryFile) Open() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(f.content)), nil
}

type memoryInfo struct{ file memoryFile }

func (i memoryInfo) Name() string       { return path.Base(i.file.name) }
func (i memoryInfo) Size() int64        { return int64(len(i.file.content)) }
func (i memoryInfo) Mode() fs.FileMode  { return 0o644 }
func (i memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool        { return false }
func (i memoryInfo) Sys() any           { return nil }
