package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// transport is mutual TLS by a directory with ca.pem, cert.pem and key.pem; without one, clear text.
func transport(directory string) (credentials.TransportCredentials, error) {
	if directory == "" {
		return insecure.NewCredentials(), nil
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(directory, "ca.pem"))
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	known.AppendCertsFromPEM(authority)
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{own}, RootCAs: known}), nil
}
